"""A run over the machines of a Ray cluster: workers ask, the driver alone limits, pays and stores (design/ray.md)."""
