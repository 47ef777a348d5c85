"""What is published: prose pages, executed notebooks, and what their pages are furnished with."""
