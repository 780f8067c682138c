"""What a basket of goods costs."""

from __future__ import annotations

FREE_DELIVERY_FROM = 50.0
DELIVERY = 4.9


def total(prices: list[float], voucher: float = 0.0) -> float:
    """The sum to pay: prices less the voucher, and delivery where the goods cost less than 50 euros."""
    goods = sum(prices)
    to_pay = goods - voucher
    if to_pay < FREE_DELIVERY_FROM:
        to_pay += DELIVERY
    return round(to_pay, 2)
