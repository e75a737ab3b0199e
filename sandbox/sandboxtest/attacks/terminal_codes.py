sys.stdout.write("\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\u202egpj.exe\r\x00\x9b31m\n")
end()
