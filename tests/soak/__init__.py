"""Deep tests by area and by budget: ``make soak``.

Reading order: ``areas`` (the areas, as data), ``record`` (outcomes of earlier runs), ``plugin``
(pytest in a soak run), ``__main__`` (the command, the budget, the report).
"""
