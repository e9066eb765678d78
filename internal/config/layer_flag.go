package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// FlagConfig is the flag that names the configuration file.
const FlagConfig = "config"

// AddFlags declares --config and a flag for each key. The flags of keys take any text: Load reports wrong values
// together with all other problems.
func AddFlags(fs *pflag.FlagSet) {
	fs.String(FlagConfig, "", "YAML file with the configuration (also "+envConfig+")")
	for _, f := range fields() {
		flag := fs.VarPF(&flagValue{field: f, text: f.Default}, f.Flag, "", f.Doc)
		if f.Type == "yes/no" {
			flag.NoOptDefVal = "true"
		}
	}
}

// flagValue implements pflag.Value. A list may be given by one flag or by several.
type flagValue struct {
	field Field
	text  string
	set   bool
}

func (v *flagValue) String() string { return v.text }

func (v *flagValue) Set(s string) error {
	if v.set && v.field.Type == "list" {
		s = v.text + "," + s
	}
	v.text, v.set = s, true
	return nil
}

func (v *flagValue) Type() string {
	switch v.field.Type {
	case "yes/no":
		return "" // pflag prints the word after the flag, which takes none
	default:
		return v.field.Type
	}
}

// flagLayer reads the flags that were given.
func flagLayer(fs *pflag.FlagSet) layer {
	out := layer{}
	byFlag := fieldBy(func(f Field) string { return f.Flag })
	fs.Visit(func(flag *pflag.Flag) {
		if f, ours := byFlag[flag.Name]; ours {
			out[f.Key] = given{Text: flag.Value.String(), Origin: Origin{Layer: "flag", Where: "--" + flag.Name}}
		}
	})
	return out
}

// configFile returns the file to read: from the flag, otherwise from the variable, otherwise none.
func configFile(fs *pflag.FlagSet, environ []string) string {
	if fs != nil {
		if flag := fs.Lookup(FlagConfig); flag != nil && flag.Changed {
			return flag.Value.String()
		}
	}
	path := ""
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, envConfig+"="); ok {
			path = value
		}
	}
	return path
}
