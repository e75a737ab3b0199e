"""A sample that solves every task: it adds up."""


def agent_main(input):
    return sum(input["data"]["numbers"])
