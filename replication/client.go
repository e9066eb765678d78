package replication

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens an ordinary SQL connection under the given application name, for what works beside the stream. Errors are
// *fault.Error and never hold the DSN. No statement is prepared on the server: a transaction pooler may lie in between.
func Connect(ctx context.Context, dsn, application string) (*pgx.Conn, error) {
	return adminConnect(ctx, dsn, AdminConfig{ConnectTimeout: 10 * time.Second, unprepared: true}, map[string]string{"application_name": application})
}

// CloseConn says good-bye to the server, for two seconds at most.
func CloseConn(conn *pgx.Conn) { closeAdminConn(context.Background(), conn) }

// QueryFault classifies the error of a statement: the server's own refusals mostly need somebody, a broken connection passes.
func QueryFault(object string, err error) error { return adminQueryFault(object, err) }

// SQLState returns the SQLSTATE of an error, empty where it is not the server's.
func SQLState(err error) string { return adminSQLState(err) }
