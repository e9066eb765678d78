package router

// MessageSchema is the schema of the relations that represent logical messages, which have no table.
const MessageSchema = "pg_logical_emit_message"

// RefuseMessage returns the error for a message that was not emitted as part of a transaction.
func RefuseMessage(prefix string) *RowError {
	return &RowError{
		Reason: NotTransactional, Table: MessageSchema + "." + prefix,
		Detail: "the message was emitted outside of any transaction, so it belongs to no commit and may come from a " +
			"transaction that was rolled back",
		Remedy: "Call pg_logical_emit_message(true, …).",
	}
}
