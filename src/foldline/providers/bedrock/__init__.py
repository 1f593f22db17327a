"""Models of AWS Bedrock."""
