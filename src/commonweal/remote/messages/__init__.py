"""What travels between coordinator and members: questions, answers, models, signatures."""
