package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const filled = "This line of the paragraph is about as long as lines of this project may become, which is 120 at most."

func TestWrapping(t *testing.T) {
	for name, c := range map[string]struct {
		page string
		want []string
	}{
		"even":              {filled + "\n" + filled + "\nEnd.\n", nil},
		"last line":         {filled + "\nEnd.\n", nil},
		"early end":         {filled + "\nThis ends early\nalthough the next word fits.\n", []string{"ragged"}},
		"next word is long": {filled + "\nThis ends early\n" + strings.Repeat("x", 110) + "\n", nil},
		"colon":             {filled + "\nThis introduces:\nsomething\n", nil},
		"narrow":            {"A short line here\nand another line\nof the same width.\n", nil},
		"too long":          {filled + " And then some words.\n", []string{"long"}},
		"cannot be broken":  {"https://" + strings.Repeat("x", 130) + "\n", nil},
		"address in a list": {"- https://" + strings.Repeat("x", 130) + "\n", nil},
		"long link":         {"- [" + filled + "](https://" + strings.Repeat("x", 100) + ")\n", nil},
		"link as next word": {filled + "\nThis ends early\n[" + filled[:80] + "](x.md)\n", nil},
		"table":             {"| " + filled + " | " + filled + " |\n", nil},
		"heading":           {"# " + filled + " and more of it\n", nil},
		"code":              {"```\n" + filled + " and more of it\nx\ny z\n```\n", nil},
		"indented code":     {"    " + filled + " and more of it\n", nil},
		"list":              {"- short\n- " + filled + "\n- short\n", nil},
		"list item":         {"- " + filled + "\n  early\n  end\n", []string{"ragged"}},
		"line break":        {filled + "\nmeant  \n" + filled + "\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var found []finding
			for _, p := range readMarkdown(c.page) {
				found = append(found, checkWrapping("f.md", p)...)
			}
			if got := rulesOf(found); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
				t.Errorf("%v, want %v", found, c.want)
			}
		})
	}
}

func TestWrapRewrites(t *testing.T) {
	many := strings.TrimSpace(strings.Repeat("some words ", 30))
	goFile := "package p\n\n// P is long. " + many + "\n//\n" +
		"//   - item " + many + "\n//\n//\tcode " + many + "\n" +
		"func P() {\n\t\t// " + many + "\n\tx() // " + many + "\n}\n"
	page := "# " + many + "\n\n" + many + "\n\n- " + many + "\n  1. " + many + "\n" +
		"\n| " + many + " |\n\n> " + many + "\n"
	for name, content := range map[string]string{"p.go": goFile, "p.md": page} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := wrapFiles(options{root: root}, []string{name}); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			strip := strings.NewReplacer("//", "", ">", "")
			before, after := strings.Fields(strip.Replace(content)), strings.Fields(strip.Replace(string(got)))
			if !slices.Equal(before, after) {
				t.Errorf("words changed:\n%s", got)
			}
			f, err := readFile(root, name)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range f.paragraphs {
				if found := checkWrapping(name, p); len(found) > 0 {
					t.Errorf("%v in\n%s", found, got)
				}
			}
		})
	}
}

func TestExampleOutputIsNotWrapped(t *testing.T) {
	f, err := readGo("p_test.go",
		[]byte("package p\n\nfunc Example() {\n\t// Output:\n\t// "+filled+"\n\t// a\n\t// b\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.paragraphs {
		if found := checkWrapping("p_test.go", p); len(found) > 0 {
			t.Error(found)
		}
	}
}

func TestWrapBeginsNoListByChance(t *testing.T) {
	p := text(markdown, strings.Repeat("x", 119)+" - y "+strings.Repeat("z", 110)+" # w 1. v")
	for _, l := range p.wrapped() {
		if listItem.MatchString(l) || strings.HasPrefix(l, "#") {
			t.Errorf("%q", l)
		}
	}
}
