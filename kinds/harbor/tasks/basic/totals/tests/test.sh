#!/bin/bash
pytest -q /tests/test_totals.py
