"""A linter for prose: docstrings, comments and pages, by the rules of docs/words.md."""
