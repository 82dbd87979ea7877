"""What every service stands on."""

from memoryos_service.ground import GROUND_SECTIONS, Ground, open_ground

__all__ = ["GROUND_SECTIONS", "Ground", "open_ground"]
