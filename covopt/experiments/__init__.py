"""What reproduces the figures of the papers; nothing else imports it."""
