#!/bin/bash
got=$(head -c 64 /app/answer.txt 2>/dev/null | tr -d ' \n')
if [ "$got" = 15 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
