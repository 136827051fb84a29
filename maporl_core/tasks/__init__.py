"""Problems to discuss and how their answers are read and graded.

``base`` is the contract, ``registry`` makes a task from the config, and every task is one file.
``answers`` gathers what they share: finding the answer in a message and comparing it with the gold
one, by number, maths expression, choice, label or exact text.
"""
