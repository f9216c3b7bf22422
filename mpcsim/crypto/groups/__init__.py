"""Groups, scalars and polynomials: the arithmetic every protocol is written in."""
