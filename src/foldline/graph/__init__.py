"""Graphs under LangGraph's names, over the same machine as agents and flows."""
