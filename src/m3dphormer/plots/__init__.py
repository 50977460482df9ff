"""Figures: functions from plain numbers to a matplotlib figure."""
