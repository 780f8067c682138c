"""Tests of the basket: python3 -m unittest."""

import unittest

from basket import total


class TotalTest(unittest.TestCase):
    """What is to be paid."""

    def test_delivery_is_charged_for_a_small_basket(self) -> None:
        """Goods of 20 euros."""
        self.assertEqual(total([12.0, 8.0]), 24.9)

    def test_delivery_is_free_from_fifty_euros(self) -> None:
        """Goods of exactly 50 euros."""
        self.assertEqual(total([30.0, 20.0]), 50.0)

    def test_voucher_does_not_cost_the_free_delivery(self) -> None:
        """Goods of 55 euros, of which a voucher pays 10."""
        self.assertEqual(total([30.0, 25.0], voucher=10.0), 45.0)

    def test_voucher_is_worth_no_more_than_the_goods(self) -> None:
        """A voucher of 30 euros for goods of 20: only delivery is left to pay."""
        self.assertEqual(total([20.0], voucher=30.0), 4.9)


if __name__ == "__main__":
    unittest.main()
