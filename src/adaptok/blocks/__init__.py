"""Causality: who sees whom, what is remembered, and the transformer that obeys (start at visibility.py)."""
