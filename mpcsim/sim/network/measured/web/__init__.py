"""What browsers and curl write: HAR files and times of phases."""
