"""What is measured and reproduced, each as one command."""
