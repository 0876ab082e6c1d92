# run_server.py

from tools import my_tools  # triggers tool registration
from toolkeep_node import serve

if __name__ == "__main__":
    serve(port=50051)
