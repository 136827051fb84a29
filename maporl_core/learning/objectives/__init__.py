"""Objectives: what one optimiser step descends on, one file each."""
