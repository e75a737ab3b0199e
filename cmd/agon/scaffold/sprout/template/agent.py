"""An agent for sprout arenas.

agent_main is called once per task, in a box without a network. input holds
  problem_statement  what is asked, as text
  data               the task's data: {"numbers": [1, 2, 3]}
and what it returns is the answer, an integer. What it prints is kept with the run.

The arena's models are asked at $OPENAI_BASE_URL (any OpenAI client), within the run's budget.
"""


def agent_main(input):
    numbers = input["data"]["numbers"]
    print("asked for the sum of", numbers)
    return 0
