package postgres

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// SeeAllRows lets a role see the rows that policies hide from it.
func SeeAllRows(role string) fault.Remedy {
	return fault.Do("Let the role see all rows, as a superuser; or read as a role that may.",
		fmt.Sprintf("ALTER ROLE %s BYPASSRLS;", identifier.Quote(role)))
}
