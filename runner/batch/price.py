"""What a request costs in a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hatevolution.configs.schema import Price

__all__ = ["batch_price"]


def batch_price(price: Price | None) -> Price | None:
    """Return the price of a model's batch interface; None where it is free."""
    if price is None or not price.batch_discount:
        return price
    rest = 1.0 - price.batch_discount
    return msgspec.structs.replace(
        price,
        input_usd_per_million_tokens=rest * price.input_usd_per_million_tokens,
        output_usd_per_million_tokens=rest * price.output_usd_per_million_tokens,
        usd_per_request=rest * price.usd_per_request,
        batch_discount=0.0,
    )
