#!/bin/bash
tr "[:upper:] " "[:lower:]\n" < words.txt | grep . | sort -u | wc -l > answer.txt
