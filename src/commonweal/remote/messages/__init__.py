"""What is sent between coordinator and members: questions, answers, models, signatures."""
