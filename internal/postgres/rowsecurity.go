package postgres

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

const seeAllRows = "Let the role see all rows, as a superuser (BYPASSRLS); or read as a role that may."

// SeeAllRows lets a role see the rows that policies hide from it.
func SeeAllRows(role string) fault.Remedy {
	return fault.Do(seeAllRows, fmt.Sprintf("ALTER ROLE %s BYPASSRLS;", identifier.Quote(role)))
}
