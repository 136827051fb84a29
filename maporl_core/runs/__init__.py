"""What a run does over its length: sessions, evaluations, checkpoints, questions, the doctor."""
