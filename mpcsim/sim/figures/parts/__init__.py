"""What figures are drawn with: style, canvas, scales, legends."""
