-- Bytes that operators read by the type of their operands, where a profiler wrote types and dimensions. Operators that launch
-- device work themselves count, else all: one that only calls another has the same operands once more.
CREATE TEMP TABLE _typed AS
SELECT process_id, name, call_path_id, attributes ->> 'Input type' AS types, attributes ->> 'Input Dims' AS dims,
    call_path_id IN (SELECT call_path_id FROM hot_ops) AS is_launching
FROM ranges
WHERE contains(attributes, '"Input type"') AND contains(attributes, '"Input Dims"') AND json_valid(attributes);

CREATE TEMP TABLE _operands AS
SELECT process_id, name, call_path_id, is_launching, unnest(TRY_CAST(types AS VARCHAR[])) AS type,
    unnest(TRY_CAST(dims AS JSON[])) AS dims
FROM _typed
WHERE len(TRY_CAST(types AS VARCHAR[])) = len(TRY_CAST(dims AS JSON[]));

CREATE TEMP TABLE _sized AS
SELECT process_id, name, call_path_id, is_launching, type,
    CASE WHEN regexp_matches(type, '(?i)float8|int8|char|byte|bool') THEN 1 WHEN regexp_matches(type, '(?i)half|float16|short')
        THEN 2 WHEN type IN ('double', 'long', 'long int') THEN 8 WHEN type IN ('float', 'int') THEN 4 END
    * list_product(TRY_CAST(dims AS DOUBLE[])) AS bytes
FROM _operands WHERE len(TRY_CAST(dims AS DOUBLE[])) > 0;

CREATE TEMP TABLE _counted AS
SELECT process_id, type, name, call_path_id, count(*)::HUGEINT AS call_count, sum(least(bytes, 1e18))::HUGEINT AS bytes
FROM _sized AS s
WHERE bytes > 0 AND (is_launching OR NOT EXISTS (FROM _sized AS o WHERE o.is_launching))
GROUP BY process_id, type, name, call_path_id;

-- Of each type the operator and call path that read most of it.
CREATE TEMP TABLE hot_operands AS
SELECT 'operand_type' AS hotspot_kind, process_id, type AS name, false AS is_other, sum(call_count)::HUGEINT AS call_count,
    sum(bytes)::HUGEINT AS self, arg_max(call_path_id, (bytes, name)) AS call_path_id, arg_max(name, (bytes, name)) AS operator,
    sum(bytes) FILTER (regexp_matches(name, '(^|::)_?(mm|bmm|addmm|baddbmm|linear|matmul|convolution|conv\dd|.*attention.*)$'))::HUGEINT
        AS product_bytes
FROM _counted GROUP BY process_id, type;
