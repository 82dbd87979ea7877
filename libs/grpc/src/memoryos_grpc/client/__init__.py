"""Calls to other services: credentials, trace, deadline budget, retries."""

from memoryos_grpc.client.channels import Channels

__all__ = ["Channels"]
