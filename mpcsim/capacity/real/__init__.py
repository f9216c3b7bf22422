"""The real service under load: its messages keep the kernel's machines busy."""
