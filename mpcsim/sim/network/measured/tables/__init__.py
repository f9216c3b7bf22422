"""Tables of measured times: cells, headings, pairs, matrices of regions."""
