"""What the real service needs to be under load: machines that its messages' handling keeps busy."""
