"""Statements that go straight to SQLite's driver: SQLAlchemy compiles them, once, and is left out.

On a small statement SQLAlchemy spends several times as long as SQLite does.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.sql.compiler import SQLCompiler
from typing_extensions import override

_KEPT_PLANS = 512

Parameters: TypeAlias = Mapping[str, object]
_Converter: TypeAlias = Callable[[Any], Any] | None


class DirectConnection(sa.Connection):
    """A connection on which statements that are kept, at module level, cost next to nothing.

    What needs more than binding values (text, lists of changing length, defaults made in Python)
    runs as on any connection, and so do errors and rows look.
    """

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self.driver = cast(sqlite3.Connection, self.connection.dbapi_connection)
        self._plans: dict[tuple[object, ...], _Plan | None] = {}

    @override
    def execute(
        self,
        statement: Any,
        parameters: Parameters | Sequence[Parameters] | None = None,
        *,
        execution_options: Any = None,
    ) -> Any:
        if execution_options is None:
            parameters = parameters or {}
            first = parameters if isinstance(parameters, Mapping) else parameters[0]
            key = (statement, *first)
            try:
                plan = self._plans[key]
            except KeyError:
                plan = self._remember(key, _planned(statement, tuple(first), self.dialect))
            if plan is not None:
                return plan.run(self.driver, parameters)
        return super().execute(statement, parameters, execution_options=execution_options)

    def _remember(self, key: tuple[object, ...], plan: "_Plan | None") -> "_Plan | None":
        if len(self._plans) >= _KEPT_PLANS:
            self._plans.clear()
        self._plans[key] = plan
        return plan


class _Rows(IteratorResult[Any]):
    """Rows that are read already, or the count of those that a statement changed."""

    def __init__(self, shape: SimpleResultMetaData, rows: list[Any], rowcount: int) -> None:
        super().__init__(shape, iter(rows))
        self.rowcount = rowcount


@dataclass(frozen=True, slots=True)
class _Bind:
    key: str
    is_required: bool
    default: object
    convert: _Converter

    def value(self, parameters: Parameters) -> object:
        value = parameters[self.key] if self.is_required else parameters.get(self.key, self.default)
        return value if self.convert is None else self.convert(value)


@dataclass(frozen=True, slots=True)
class _Plan:
    sql: str
    binds: tuple[_Bind, ...]
    shape: SimpleResultMetaData
    converters: tuple[_Converter, ...]
    """One per column of the result; empty when no column needs any."""

    def run(
        self, driver: sqlite3.Connection, parameters: Parameters | Sequence[Parameters]
    ) -> _Rows:
        try:
            if isinstance(parameters, Mapping):
                cursor = driver.execute(self.sql, self._values(parameters))
            else:
                cursor = driver.executemany(self.sql, [self._values(each) for each in parameters])
            rows = cursor.fetchall()
        except sqlite3.Error as error:
            raise exc.DBAPIError.instance(self.sql, None, error, sqlite3.Error) from error
        if self.converters:
            rows = [self._converted(row) for row in rows]
        return _Rows(self.shape, rows, cursor.rowcount)

    def _values(self, parameters: Parameters) -> list[object]:
        return [bind.value(parameters) for bind in self.binds]

    def _converted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            value if convert is None else convert(value)
            for value, convert in zip(row, self.converters, strict=True)
        )


def _planned(statement: Any, keys: tuple[str, ...], dialect: sa.Dialect) -> _Plan | None:
    """How to run a statement with parameters of these names; None for one to leave alone."""
    if not isinstance(statement, sa.Select | sa.Insert | sa.Update | sa.Delete):
        return None
    compiled = statement.compile(dialect=dialect, column_keys=list(keys))
    assert isinstance(compiled, SQLCompiler)
    is_plain = not (
        compiled.post_compile_params
        or compiled.literal_execute_params
        or compiled.insert_prefetch
        or compiled.update_prefetch
    )
    bound = [compiled.binds[name] for name in compiled.positiontup or ()]
    if not is_plain or any(
        bind.callable or (bind.required and bind.key not in keys) for bind in bound
    ):
        return None
    columns = statement.exported_columns.items()
    converters = tuple(_reader(column.type, dialect) for _, column in columns)
    return _Plan(
        sql=str(compiled),
        binds=tuple(
            _Bind(bind.key, bind.required, bind.value, _writer(bind.type, dialect))
            for bind in bound
        ),
        shape=SimpleResultMetaData([str(name) for name, _ in columns]),
        converters=converters if any(converters) else (),
    )


def _writer(kind: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> _Converter:
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _reader(kind: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> _Converter:
    return kind.dialect_impl(dialect).result_processor(dialect, None)
