"""Building blocks of figures: canvas, style, scales, legends, bars, arrows and their labels."""
