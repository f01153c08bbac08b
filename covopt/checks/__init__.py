"""Arguments are checked and messages are worded here, before anything is computed."""
