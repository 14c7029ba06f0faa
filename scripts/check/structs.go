package main

// What does a configuration struct say about its environment variables? Read from the source with
// go/ast, because the meaning of a variable is its field's comment, which no compiled program has.

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"reflect"
	"strconv"
	"strings"
)

// variable is one row of docs/configuration.md, in Markdown.
type variable struct{ Name, Default, Meaning string }

// readStruct lists the variables of the struct called name in folder, in the order of its fields;
// fields that are structs of this module (embedded or not) are followed. A variable without a
// comment is an error: nobody would know what it is for.
func readStruct(files fs.FS, folder, name string) ([]variable, error) {
	file, fields, err := findStruct(files, folder, name)
	if err != nil {
		return nil, err
	}
	var variables []variable
	for _, field := range fields.List {
		tag := tagOf(field)
		if key, options, _ := strings.Cut(tag.Get("env"), ","); key != "" {
			meaning := strings.Join(strings.Fields(field.Doc.Text()), " ")
			if meaning == "" {
				return nil, fmt.Errorf("%s: %s has no comment that says what it means", file.path, key)
			}
			variables = append(variables, variable{key, defaultOf(tag, options), strings.ReplaceAll(meaning, "|", `\|`)})
			continue
		}
		inner, innerName := target(file, field.Type)
		if innerName == "" {
			continue // not from the environment
		}
		if inner == "" {
			inner = folder
		}
		more, err := readStruct(files, inner, innerName)
		if err != nil {
			return nil, err
		}
		prefix := tag.Get("envPrefix")
		for _, v := range more {
			v.Name = prefix + v.Name
			variables = append(variables, v)
		}
	}
	return variables, nil
}

// findStruct looks for `type name struct` in the files of one package.
func findStruct(files fs.FS, folder, name string) (file goFile, fields *ast.FieldList, err error) {
	sub, err := fs.Sub(files, folder)
	if err != nil {
		return file, nil, err
	}
	err = eachGo(sub, func(g goFile) error {
		if g.isTest() || strings.Contains(g.path, "/") {
			return nil
		}
		ast.Inspect(g.File, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok && spec.Name.Name == name {
				if structure, ok := spec.Type.(*ast.StructType); ok {
					g.path = path.Join(folder, g.path)
					file, fields = g, structure.Fields
				}
			}
			return fields == nil
		})
		return nil
	})
	if err == nil && fields == nil {
		err = fmt.Errorf("%s has no `type %s struct`", folder, name)
	}
	return file, fields, err
}

// target tells which struct of this module a field's type is: its folder ("" = the same package)
// and name. Name is "" for every other type.
func target(file goFile, fieldType ast.Expr) (folder, name string) {
	switch t := fieldType.(type) {
	case *ast.Ident:
		if ast.IsExported(t.Name) {
			return "", t.Name
		}
	case *ast.SelectorExpr:
		pkg, _ := t.X.(*ast.Ident)
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if pkg != nil && strings.HasPrefix(imported, module) && path.Base(imported) == pkg.Name {
				return strings.TrimPrefix(imported, module), t.Sel.Name
			}
		}
	}
	return "", ""
}

func tagOf(field *ast.Field) reflect.StructTag {
	if field.Tag == nil {
		return ""
	}
	text, _ := strconv.Unquote(field.Tag.Value)
	return reflect.StructTag(text)
}

func defaultOf(tag reflect.StructTag, options string) string {
	if value, ok := tag.Lookup("envDefault"); ok && value != "" {
		return "`" + value + "`"
	}
	if strings.Contains(options, "required") || strings.Contains(options, "notEmpty") {
		return "required"
	}
	return "(empty)"
}
