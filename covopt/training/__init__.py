"""Many small networks trained at once in torch, and held against the certified optimum (extra ``[torch]``)."""
