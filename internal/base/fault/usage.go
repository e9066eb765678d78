package fault

import "errors"

// Usage is a mistake on the command line: exit code 2.
func Usage(what, next string, commands ...string) error {
	return &Error{Kind: Config, Object: "command line", Err: errors.New(what), Next: next, Commands: commands}
}
