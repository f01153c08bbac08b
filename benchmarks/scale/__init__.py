"""What one machine or its memory does not hold: speed on a cluster, cells on disk, memory against limits."""
