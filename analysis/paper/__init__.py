"""What the study's published tables say, what they should say, and how one's own run compares."""
