"""Order statistics and quantile sketches."""
