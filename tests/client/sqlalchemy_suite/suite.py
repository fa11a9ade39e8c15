"""The tests of SQLAlchemy's suite, without those that Spark cannot pass."""

from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *  # noqa: F403

# Spark's names of tables have letters, digits and underscores only.
del BizarroCharacterTest, QuotedNameArgumentTest  # noqa: F821
# These tests delete rows. Spark's tables of files have no DELETE.
del NumericTest  # noqa: F821


class ComponentReflectionTest(suite.ComponentReflectionTest):
    """Without the tests of NOT NULL: Spark's tables of files reflect every column as nullable."""

    test_autoincrement_col = test_get_multi_columns = None


class ComponentReflectionTestExtra(suite.ComponentReflectionTestExtra):
    """Without the tests of NOT NULL, and of the lengths of texts, which Spark's STRING has not."""

    test_nullable_reflection = test_string_length_reflection = None


class ExceptionTest(suite.ExceptionTest):
    """Without the test of a primary key, which Spark has not."""

    test_integrity_error = None


class LongNameBlowoutTest(suite.LongNameBlowoutTest):
    """Without the tests of names of keys and indexes, which Spark has not."""

    test_long_convention_name = None
