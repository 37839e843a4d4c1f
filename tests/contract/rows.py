"""Every sentence of the documents that concerns ONNX models: all rows together. `test_rows.py` asks that each is proved."""

from tests.contract.row import Row
from tests.contract.rows_contract import ROWS as CONTRACT_ROWS
from tests.contract.rows_rest_api import ROWS as REST_API_ROWS

ROWS: tuple[Row, ...] = (*REST_API_ROWS, *CONTRACT_ROWS)
