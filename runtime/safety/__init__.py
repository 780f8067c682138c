"""What watches over actions: the rules of danger, and what an action would really do."""
