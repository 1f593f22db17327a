"""Listeners that record runs."""
