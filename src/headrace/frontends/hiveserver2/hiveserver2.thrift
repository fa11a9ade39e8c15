// The messages of HiveServer2's Thrift protocol, as far as clients use them.
// Names, numbers and types are those of Hive's service (versions 1 to 11 of the protocol).

enum TProtocolVersion { V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11 }

enum TTypeId {
  BOOLEAN_TYPE, TINYINT_TYPE, SMALLINT_TYPE, INT_TYPE, BIGINT_TYPE, FLOAT_TYPE, DOUBLE_TYPE,
  STRING_TYPE, TIMESTAMP_TYPE, BINARY_TYPE, ARRAY_TYPE, MAP_TYPE, STRUCT_TYPE, UNION_TYPE,
  USER_DEFINED_TYPE, DECIMAL_TYPE, NULL_TYPE, DATE_TYPE, VARCHAR_TYPE, CHAR_TYPE,
  INTERVAL_YEAR_MONTH_TYPE, INTERVAL_DAY_TIME_TYPE, TIMESTAMPLOCALTZ_TYPE
}

union TTypeQualifierValue { 1: optional i32 i32Value, 2: optional string stringValue }
struct TTypeQualifiers { 1: required map<string, TTypeQualifierValue> qualifiers }
struct TPrimitiveTypeEntry { 1: required i32 type, 2: optional TTypeQualifiers typeQualifiers }
// Clients need no more than the outer type of an array, a map or a struct, which arrive as text.
union TTypeEntry { 1: optional TPrimitiveTypeEntry primitiveEntry }
struct TTypeDesc { 1: required list<TTypeEntry> types }
struct TColumnDesc {
  1: required string columnName, 2: required TTypeDesc typeDesc, 3: required i32 position,
  4: optional string comment
}
struct TTableSchema { 1: required list<TColumnDesc> columns }

enum TStatusCode {
  SUCCESS_STATUS, SUCCESS_WITH_INFO_STATUS, STILL_EXECUTING_STATUS, ERROR_STATUS,
  INVALID_HANDLE_STATUS
}
struct TStatus {
  1: required i32 statusCode, 2: optional list<string> infoMessages, 3: optional string sqlState,
  4: optional i32 errorCode, 5: optional string errorMessage
}

enum TOperationState {
  INITIALIZED_STATE, RUNNING_STATE, FINISHED_STATE, CANCELED_STATE, CLOSED_STATE, ERROR_STATE,
  UKNOWN_STATE, PENDING_STATE, TIMEDOUT_STATE
}
enum TOperationType {
  EXECUTE_STATEMENT, GET_TYPE_INFO, GET_CATALOGS, GET_SCHEMAS, GET_TABLES, GET_TABLE_TYPES,
  GET_COLUMNS, GET_FUNCTIONS, UNKNOWN
}

struct THandleIdentifier { 1: required binary guid, 2: required binary secret }
struct TSessionHandle { 1: required THandleIdentifier sessionId }
struct TOperationHandle {
  1: required THandleIdentifier operationId, 2: required i32 operationType,
  3: required bool hasResultSet, 4: optional double modifiedRowCount
}

struct TOpenSessionReq {
  1: required i32 client_protocol, 2: optional string username, 3: optional string password,
  4: optional map<string, string> configuration
}
struct TOpenSessionResp {
  1: required TStatus status, 2: required i32 serverProtocolVersion,
  3: optional TSessionHandle sessionHandle, 4: optional map<string, string> configuration
}
struct TSetClientInfoReq {
  1: required TSessionHandle sessionHandle, 2: optional map<string, string> configuration
}
struct TSetClientInfoResp { 1: required TStatus status }
struct TCloseSessionReq { 1: required TSessionHandle sessionHandle }
struct TCloseSessionResp { 1: required TStatus status }

union TGetInfoValue {
  1: optional string stringValue, 2: optional i16 smallIntValue, 3: optional i32 integerBitmask,
  4: optional i32 integerFlag, 5: optional i32 binaryValue, 6: optional i64 lenValue
}
struct TGetInfoReq { 1: required TSessionHandle sessionHandle, 2: required i32 infoType }
struct TGetInfoResp { 1: required TStatus status, 2: required TGetInfoValue infoValue }

struct TExecuteStatementReq {
  1: required TSessionHandle sessionHandle, 2: required string statement,
  3: optional map<string, string> confOverlay, 4: optional bool runAsync, 5: optional i64 queryTimeout
}
// The answer to ExecuteStatement and to each call for metadata.
struct TOperationResp { 1: required TStatus status, 2: optional TOperationHandle operationHandle }

struct TGetTypeInfoReq { 1: required TSessionHandle sessionHandle }
struct TGetCatalogsReq { 1: required TSessionHandle sessionHandle }
struct TGetSchemasReq {
  1: required TSessionHandle sessionHandle, 2: optional string catalogName,
  3: optional string schemaName
}
struct TGetTablesReq {
  1: required TSessionHandle sessionHandle, 2: optional string catalogName,
  3: optional string schemaName, 4: optional string tableName, 5: optional list<string> tableTypes
}
struct TGetTableTypesReq { 1: required TSessionHandle sessionHandle }
struct TGetColumnsReq {
  1: required TSessionHandle sessionHandle, 2: optional string catalogName,
  3: optional string schemaName, 4: optional string tableName, 5: optional string columnName
}
struct TGetFunctionsReq {
  1: required TSessionHandle sessionHandle, 2: optional string catalogName,
  3: optional string schemaName, 4: optional string functionName
}
struct TGetPrimaryKeysReq {
  1: required TSessionHandle sessionHandle, 2: optional string catalogName,
  3: optional string schemaName, 4: optional string tableName
}
struct TGetCrossReferenceReq {
  1: required TSessionHandle sessionHandle, 2: optional string parentCatalogName,
  3: optional string parentSchemaName, 4: optional string parentTableName,
  5: optional string foreignCatalogName, 6: optional string foreignSchemaName,
  7: optional string foreignTableName
}

struct TGetOperationStatusReq {
  1: required TOperationHandle operationHandle, 2: optional bool getProgressUpdate
}
struct TProgressUpdateResp {
  1: required list<string> headerNames, 2: required list<list<string>> rows,
  3: required double progressedPercentage, 4: required i32 status, 5: required string footerSummary,
  6: required i64 startTime
}
struct TGetOperationStatusResp {
  1: required TStatus status, 2: optional i32 operationState, 3: optional string sqlState,
  4: optional i32 errorCode, 5: optional string errorMessage, 6: optional string taskStatus,
  7: optional i64 operationStarted, 8: optional i64 operationCompleted, 9: optional bool hasResultSet,
  10: optional TProgressUpdateResp progressUpdateResponse, 11: optional i64 numModifiedRows
}
struct TCancelOperationReq { 1: required TOperationHandle operationHandle }
struct TCancelOperationResp { 1: required TStatus status }
struct TCloseOperationReq { 1: required TOperationHandle operationHandle }
struct TCloseOperationResp { 1: required TStatus status }
struct TGetResultSetMetadataReq { 1: required TOperationHandle operationHandle }
struct TGetResultSetMetadataResp { 1: required TStatus status, 2: optional TTableSchema schema }

enum TFetchOrientation {
  FETCH_NEXT, FETCH_PRIOR, FETCH_RELATIVE, FETCH_ABSOLUTE, FETCH_FIRST, FETCH_LAST
}
struct TFetchResultsReq {
  1: required TOperationHandle operationHandle, 2: required i32 orientation, 3: required i64 maxRows,
  4: optional i16 fetchType
}
struct TBoolValue { 1: optional bool value }
struct TByteValue { 1: optional byte value }
struct TI16Value { 1: optional i16 value }
struct TI32Value { 1: optional i32 value }
struct TI64Value { 1: optional i64 value }
struct TDoubleValue { 1: optional double value }
struct TStringValue { 1: optional string value }
union TColumnValue {
  1: optional TBoolValue boolVal, 2: optional TByteValue byteVal, 3: optional TI16Value i16Val,
  4: optional TI32Value i32Val, 5: optional TI64Value i64Val, 6: optional TDoubleValue doubleVal,
  7: optional TStringValue stringVal
}
struct TRow { 1: required list<TColumnValue> colVals }
struct TBoolColumn { 1: required list<bool> values, 2: required binary nulls }
struct TByteColumn { 1: required list<byte> values, 2: required binary nulls }
struct TI16Column { 1: required list<i16> values, 2: required binary nulls }
struct TI32Column { 1: required list<i32> values, 2: required binary nulls }
struct TI64Column { 1: required list<i64> values, 2: required binary nulls }
struct TDoubleColumn { 1: required list<double> values, 2: required binary nulls }
struct TStringColumn { 1: required list<string> values, 2: required binary nulls }
struct TBinaryColumn { 1: required list<binary> values, 2: required binary nulls }
union TColumn {
  1: optional TBoolColumn boolVal, 2: optional TByteColumn byteVal, 3: optional TI16Column i16Val,
  4: optional TI32Column i32Val, 5: optional TI64Column i64Val, 6: optional TDoubleColumn doubleVal,
  7: optional TStringColumn stringVal, 8: optional TBinaryColumn binaryVal
}
// The node writes rows as bytes (see `rows`); these structs say of which form they are.
struct TRowSet {
  1: required i64 startRowOffset, 2: required list<TRow> rows, 3: optional list<TColumn> columns
}
struct TFetchResultsResp {
  1: required TStatus status, 2: optional bool hasMoreRows, 3: optional TRowSet results
}

struct TDelegationTokenReq { 1: required TSessionHandle sessionHandle }
struct TDelegationTokenResp { 1: required TStatus status }
struct TGetQueryIdReq { 1: required TOperationHandle operationHandle }
struct TGetQueryIdResp { 1: required string queryId }

service TCLIService {
  TOpenSessionResp OpenSession(1: TOpenSessionReq req)
  TSetClientInfoResp SetClientInfo(1: TSetClientInfoReq req)
  TCloseSessionResp CloseSession(1: TCloseSessionReq req)
  TGetInfoResp GetInfo(1: TGetInfoReq req)
  TOperationResp ExecuteStatement(1: TExecuteStatementReq req)
  TOperationResp GetTypeInfo(1: TGetTypeInfoReq req)
  TOperationResp GetCatalogs(1: TGetCatalogsReq req)
  TOperationResp GetSchemas(1: TGetSchemasReq req)
  TOperationResp GetTables(1: TGetTablesReq req)
  TOperationResp GetTableTypes(1: TGetTableTypesReq req)
  TOperationResp GetColumns(1: TGetColumnsReq req)
  TOperationResp GetFunctions(1: TGetFunctionsReq req)
  TOperationResp GetPrimaryKeys(1: TGetPrimaryKeysReq req)
  TOperationResp GetCrossReference(1: TGetCrossReferenceReq req)
  TGetOperationStatusResp GetOperationStatus(1: TGetOperationStatusReq req)
  TCancelOperationResp CancelOperation(1: TCancelOperationReq req)
  TCloseOperationResp CloseOperation(1: TCloseOperationReq req)
  TGetResultSetMetadataResp GetResultSetMetadata(1: TGetResultSetMetadataReq req)
  TFetchResultsResp FetchResults(1: TFetchResultsReq req)
  TDelegationTokenResp GetDelegationToken(1: TDelegationTokenReq req)
  TDelegationTokenResp CancelDelegationToken(1: TDelegationTokenReq req)
  TDelegationTokenResp RenewDelegationToken(1: TDelegationTokenReq req)
  TGetQueryIdResp GetQueryId(1: TGetQueryIdReq req)
}
